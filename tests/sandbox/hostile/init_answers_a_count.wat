;; expect: 1.15
;; role: sampler
(func (export "init") (result i32) (i32.const 1))
