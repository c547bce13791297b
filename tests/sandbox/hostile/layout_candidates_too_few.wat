;; expect: 1.15
;; role: sampler
;; tier: topk:5
;; layout: logits=0 logits_stride=0 candidates=16384 candidate_capacity=4

