;; expect: 1.12
;; role: sampler
(func (drop (i32.atomic.load (i32.const 0))))
