;; expect: 1.6
;; role: sampler
(table i64 1 1 funcref)
