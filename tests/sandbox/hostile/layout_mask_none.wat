;; expect: 1.15
;; role: sampler
;; tier: mask
;; layout: logits=0 logits_stride=0

