;; expect: 1.15
;; role: sampler
;; tier: mask
;; layout: logits=4096 logits_stride=4096 answer=12288 answer_capacity=64 max_backtrack=4

