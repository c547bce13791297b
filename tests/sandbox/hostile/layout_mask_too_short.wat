;; expect: 1.15
;; role: sampler
;; tier: mask
;; layout: logits=0 logits_stride=0 answer=12288 answer_capacity=60 max_backtrack=4

