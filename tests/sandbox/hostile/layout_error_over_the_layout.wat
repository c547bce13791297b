;; expect: 1.15
;; role: sampler
;; layout: error=100

