;; expect: 1.15
;; role: sampler
;; layout: config_capacity=16385

