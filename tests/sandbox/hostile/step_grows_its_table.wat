;; expect: error
;; role: sampler
(table 1 funcref)
(func (export "step") (param i32) (result i32)
  (if (i32.ne (table.grow (ref.null func) (i32.const 100000)) (i32.const -1)) (then (unreachable))) (i32.const -0x40000000))
