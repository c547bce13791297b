;; expect: invalid
;; role: sampler
;; slots: 2
;; layout: max_rows=2 rows=20480 results=20992 history=21504 logits=32768
(func (export "step") (param i32) (result i32)
  (i32.store (i32.const 20992) (i32.const 16)) (i32.store (i32.const 20996) (i32.const 6)) (i32.const 0))
