;; expect: trap
;; role: sampler
(func $again (param i64) (result i64) (i64.add (i64.const 1) (call $again (local.get 0))))
(func (export "step") (param i32) (result i32)
  (drop (call $again (i64.const 0))) (i32.const 0))
