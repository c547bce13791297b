;; expect: timeout
;; role: sampler
(func (export "step") (param i32) (result i32)
  (loop $l (memory.fill (i32.const 0) (i32.const 0xff) (i32.const 131072)) (br $l)) (i32.const 0))
