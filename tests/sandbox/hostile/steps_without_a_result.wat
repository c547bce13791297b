;; expect: 1.9
;; role: sampler
(func (export "step") (param i32))
