;; expect: invalid
;; role: sampler
;; then: reset
(func (export "reset") (result i32) (i32.const 1))
