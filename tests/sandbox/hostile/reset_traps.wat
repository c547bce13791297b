;; expect: trap
;; role: sampler
;; then: reset
(func (export "reset") (result i32) unreachable)
