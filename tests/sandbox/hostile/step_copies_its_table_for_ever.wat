;; expect: timeout
;; role: sampler
(table 1000 funcref)
(func (export "step") (param i32) (result i32)
  (loop $more (table.copy (i32.const 0) (i32.const 1) (i32.const 999)) (br $more))
  (i32.const 0))
