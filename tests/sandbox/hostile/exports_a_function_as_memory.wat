;; expect: 1.5
;; role: sampler
(memory 2 2) (func (export "memory"))
