;; expect: trap
;; role: sampler
(table 1 funcref) (elem (i32.const 0) $f) (func $f (param f64))
(func (export "step") (param i32) (result i32)
  (call_indirect (result i32) (i32.const 0)))
