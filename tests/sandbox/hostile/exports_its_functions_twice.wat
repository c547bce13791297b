;; expect: ok
;; role: sampler
(func (export "step") (export "") (export "step\00") (export "stеp") (param i32) (result i32)
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 6)) (i32.const 0))
