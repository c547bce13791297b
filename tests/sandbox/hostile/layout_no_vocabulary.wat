;; expect: 1.15
;; role: sampler
;; layout: vocab_capacity=0

