;; expect: trap
;; role: sampler
(func (export "step") (param i32) (result i32)
  (unreachable))
