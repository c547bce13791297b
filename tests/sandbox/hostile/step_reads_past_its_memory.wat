;; expect: trap
;; role: sampler
(func (export "step") (param i32) (result i32)
  (i32.load (i32.const 131072)))
