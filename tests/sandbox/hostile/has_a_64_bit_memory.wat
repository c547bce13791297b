;; expect: 1.5
;; role: sampler
;; use: none
(memory (export "memory") i64 2 2)
