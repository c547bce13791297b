;; expect: timeout
;; role: sampler
;; then: reset
(func (export "reset") (result i32) (loop $more (br $more)) (i32.const 0))
