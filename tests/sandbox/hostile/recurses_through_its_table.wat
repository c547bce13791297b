;; expect: trap
;; role: sampler
(table 1 funcref) (elem (i32.const 0) $again)
(func $again (param i32) (result i32) (i32.add (i32.const 1) (call_indirect (param i32) (result i32) (local.get 0) (i32.const 0))))
(func (export "step") (param i32) (result i32) (call $again (local.get 0)))
