;; expect: 1.15
;; role: sampler
;; layout: history_capacity=0

