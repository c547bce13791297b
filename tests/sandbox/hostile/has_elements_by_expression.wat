;; expect: 1.11
;; role: sampler
(table 1 funcref) (elem (i32.const 0) funcref (ref.null func))
