;; expect: error
;; role: sampler
;; slots: 2
;; layout: max_rows=2 rows=20480 results=20992 history=21504 logits=32768
(func (export "step") (param i32) (result i32) (i32.const -0x40000002))
