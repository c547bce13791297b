;; expect: 1.9
;; role: sampler
;; use: none
(memory (export "memory") 2 2) (func (export "layout") (result i32) (i32.const 64))
