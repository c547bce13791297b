;; expect: trap
;; role: sampler
;; slots: 2
;; layout: max_rows=2 rows=20480 results=20992 history=21504 logits=32768
(func (export "step") (param $rows i32) (result i32)
  ;; the first slot has its answer already, and all is well while the slots are told of; row 1 wants an answer: flag 4
  (i32.store (i32.const 20992) (i32.const 16)) (i32.store (i32.const 20996) (i32.const 6))
  (if (i32.and (i32.load (i32.const 20584)) (i32.const 4)) (then unreachable))
  (i32.const 0))
