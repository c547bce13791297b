;; expect: 1.12
;; role: sampler
(func (result i32) (i64.const 1))
