;; expect: invalid
;; role: sampler
;; steps: 2
;; layout: answer=20480 answer_capacity=1024
(func (export "step") (param i32) (result i32)
  ;; FAST_FORWARD of the 61 ids that a prompt of three leaves room for, again and again
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 8)) (i32.store (i32.const 8332) (i32.const 61))
  (i32.const 0))
