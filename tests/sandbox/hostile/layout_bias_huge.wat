;; expect: 1.15
;; role: sampler
;; layout: bias_capacity=536870912

