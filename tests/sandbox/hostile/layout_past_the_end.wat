;; expect: 1.15
;; role: sampler
(func (export "layout") (result i32) (i32.const 131040))
