;; expect: timeout
;; role: sampler
;; slots: 2
;; layout: max_rows=2 rows=20480 results=20992 history=21504 logits=32768
(func (export "step") (param i32) (result i32)
  (if (i32.and (i32.load (i32.const 20584)) (i32.const 8)) (then (loop $for_ever (br $for_ever))))
  (i32.const 0))
