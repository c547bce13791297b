;; expect: 1.8
;; role: sampler
(func (param externref))
