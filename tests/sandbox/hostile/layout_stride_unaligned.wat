;; expect: 1.15
;; role: sampler
;; layout: logits_stride=4100

