;; expect: 1.6
;; role: sampler
(table 1001 funcref)
