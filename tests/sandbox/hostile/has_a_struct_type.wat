;; expect: 1.8
;; role: sampler
(type (struct (field i32)))
