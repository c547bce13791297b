;; expect: 1.9
;; role: sampler
(func (export "step") (param i64) (result i32) (i32.const 0))
