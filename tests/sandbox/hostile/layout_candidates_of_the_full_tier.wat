;; expect: 1.15
;; role: sampler
;; layout: candidates=16384 candidate_capacity=4

