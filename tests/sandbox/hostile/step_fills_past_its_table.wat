;; expect: trap
;; role: sampler
(table 1000 funcref)
(func (export "step") (param i32) (result i32)
  (table.fill (i32.const 1) (ref.null func) (i32.const 1000)) (i32.const 0))
