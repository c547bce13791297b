;; expect: trap
;; role: sampler
(table 1 funcref)
(func (export "step") (param i32) (result i32)
  (call_indirect (result i32) (i32.const 0)))
