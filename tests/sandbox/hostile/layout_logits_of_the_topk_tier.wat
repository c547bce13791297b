;; expect: 1.15
;; role: sampler
;; tier: topk:4
;; layout: logits=4096 logits_stride=4096 candidates=16384 candidate_capacity=4

