;; expect: invalid
;; role: sampler
;; layout: answer=12288 answer_capacity=64 max_backtrack=4
(func (export "step") (param i32) (result i32)
  (i32.store (i32.const 8320) (i32.const 16))
  (i32.store (i32.const 8324) (i32.const 7))
  (i32.store (i32.const 8328) (i32.const 1))
  (i32.store (i32.const 8332) (i32.const 0))
  (i32.const 0))
