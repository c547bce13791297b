;; expect: ok
;; role: sampler
(func (export "vocabulary") (param i32) (result i32) (i32.const 65536))
(func (export "step") (param i32) (result i32)
  (memory.fill (i32.const 65536) (i32.const 0xff) (i32.const 65536))
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 6)) (i32.const 0))
