;; expect: 1.15
;; role: sampler
;; layout: error_capacity=8192

