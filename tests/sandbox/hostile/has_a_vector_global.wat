;; expect: 1.7
;; role: sampler
(global v128 (v128.const i64x2 0 0))
