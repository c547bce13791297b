;; expect: timeout
;; role: sampler
(func (export "step") (param i32) (result i32)
  (loop $l (i32.store (i32.const 16) (i32.add (i32.load (i32.const 16)) (i32.const 1))) (br $l)) (i32.const 0))
