;; expect: 1.15
;; role: sampler
(table 1 funcref) (elem (i32.const 5) $f) (func $f)
