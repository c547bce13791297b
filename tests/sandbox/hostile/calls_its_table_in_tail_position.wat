;; expect: 1.12
;; role: sampler
(table 1 funcref)
(func (result i32) (return_call_indirect (result i32) (i32.const 0)))
