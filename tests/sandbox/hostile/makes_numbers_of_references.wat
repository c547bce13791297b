;; expect: 1.12
;; role: sampler
(func (drop (ref.i31 (i32.const 1))))
