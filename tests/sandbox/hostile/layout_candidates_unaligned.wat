;; expect: 1.15
;; role: sampler
;; tier: topk:4
;; layout: logits=0 logits_stride=0 candidates=16386 candidate_capacity=4

